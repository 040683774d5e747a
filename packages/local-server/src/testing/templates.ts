import { basename, join, resolve } from 'node:path'
import { TemporaryDirectory } from '@batonsql/server-common/base'
import type { DatabaseAddress } from '../server/server.ts'
import { applyMigrations, describeMigrations, type Migrations } from './migrations.ts'
import { findTemplateDirectory, TemplateStore } from './template-store.ts'
import type { TestServer } from './test-server.ts'

/** A function that fills a database, given its address. */
export type TemplateFunction = (config: DatabaseAddress) => unknown

/** A template that is kept on disk under a key. */
export interface KeyedTemplate {
  /** Change it when `create` makes something else, for example because of code or data that it imports. */
  readonly key: string
  readonly create: TemplateFunction
}

/** A function that fills the database that tests get copies of, with a key to keep it on disk; or the path of an SQLite file. */
export type Template = TemplateFunction | KeyedTemplate | string

/** What the databases of tests are made of. */
export interface TemplateOptions {
  readonly migrations?: Migrations
  readonly template?: Template
  readonly templateDirectory?: string
}

interface NewTemplate {
  /** Named in errors. */
  readonly name: string
  /** The file that it begins as a copy of; null for an empty database. */
  readonly base: string | null
  readonly fill: TemplateFunction
}

/** Makes the templates of a process, or finds those that are kept on disk. */
export class Templates {
  readonly #server: TestServer
  readonly #files: { readonly options: TemplateOptions; readonly file: Promise<string> }[] = []
  #directory: Promise<TemporaryDirectory> | null = null
  #count = 0

  constructor(server: TestServer) {
    this.#server = server
  }

  /** Returns the file that databases are copies of; null for empty databases. @throws Error naming the template that failed */
  async getFile(options: TemplateOptions): Promise<string | null> {
    const { migrations, template, templateDirectory } = options
    if (template === undefined && migrations === undefined) return null
    // the server may run in another directory
    if (typeof template === 'string') return resolve(template)
    return await this.#once(options, async () => {
      const directory = templateDirectory ?? findTemplateDirectory()
      const ingredients = migrations === undefined ? [] : await describeMigrations(migrations)
      // nothing is kept if changes of the migrations cannot be detected
      const store = directory === null || ingredients === null ? null : new TemplateStore(directory)
      const base = migrations === undefined ? null : await this.#migrate(migrations, ingredients ?? [], store)
      if (template === undefined) return base as string
      if (typeof template === 'function')
        return await this.#make({ name: template.name || 'template', base, fill: template }, null, [])
      const { key, create } = template
      const ownIngredients = ['template', key, String(create), base === null ? '' : basename(base)]
      return await this.#make({ name: key, base, fill: create }, store, ownIngredients)
    })
  }

  async close(): Promise<void> {
    await (await this.#directory)?.remove()
  }

  /** Tests with the same options use the same file; if it could not be made, each of them rejects with the reason. */
  #once(options: TemplateOptions, make: () => Promise<string>): Promise<string> {
    const names = ['migrations', 'template', 'templateDirectory'] as const
    const existing = this.#files.find((entry) => names.every((name) => entry.options[name] === options[name]))
    if (existing !== undefined) return existing.file
    const file = make()
    this.#files.push({ options, file })
    return file
  }

  async #migrate(
    migrations: Migrations,
    ingredients: readonly string[],
    store: TemplateStore | null,
  ): Promise<string> {
    const name = typeof migrations === 'string' ? migrations : 'migrations'
    const fill: TemplateFunction = async (config) => {
      await applyMigrations(migrations, config)
      // otherwise, the template would be used again as soon as the migrations are changed back
      if (store !== null && String(await describeMigrations(migrations)) !== String(ingredients))
        throw new Error('the migrations changed while they were applied; run the tests again')
    }
    return await this.#make({ name, base: null, fill }, store, ingredients)
  }

  /** @param store null to make the template only for this process */
  async #make(
    template: NewTemplate,
    store: TemplateStore | null,
    ingredients: readonly string[],
  ): Promise<string> {
    if (store !== null) return await store.get(ingredients, (path) => this.#write(template, path))
    this.#directory ??= TemporaryDirectory.create('baton-testing-')
    this.#count += 1
    const path = join((await this.#directory).path, `template-${this.#count}.db`)
    await this.#write(template, path)
    return path
  }

  async #write({ name, base, fill }: NewTemplate, file: string): Promise<void> {
    const database = await this.#server.take(base)
    try {
      await fill(database.address)
      await this.#server.export(database.name, file)
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`useDatabase: the template "${name}" failed: ${reason}`, { cause })
    } finally {
      await this.#server.discard(database.name)
    }
  }
}
