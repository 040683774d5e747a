import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openApiDocument } from './openapi.ts'
import { ROUTES } from './table.ts'

/** A schema of the document. */
interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly required?: readonly string[]
}
type Content = Readonly<Record<string, { readonly schema: Schema }>>

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string }[]
  readonly requestBody?: { readonly required: boolean; readonly content: Content }
  readonly security: readonly object[]
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>
}

const document = openApiDocument(ROUTES, '1.2.3') as {
  readonly info: { readonly version: string }
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}
const operations = Object.values(document.paths).flatMap((path) => Object.values(path))

/** A shape in the notation of the list of routes, which was compiled from public sources. */
interface Shape {
  readonly type?: string
  readonly fields?: Readonly<Record<string, Shape>>
  readonly items?: Shape
}

interface Row {
  readonly method: string
  readonly path: string
  readonly api: string
  readonly status: string
  readonly request: {
    readonly query: Readonly<Record<string, unknown>>
    readonly body: { readonly required: boolean; readonly schema: Shape } | null
  }
  readonly response: { readonly body: Shape | null }
}

const file = new URL('../../../../test/fixtures/platform-routes.json', import.meta.url)
const documented = (JSON.parse(readFileSync(file, 'utf8')) as readonly Row[]).filter(
  ({ api, status }) => api === 'platform' && status === 'documented',
)

/** Resolves references, and ignores null. */
function resolveSchema(schema: Schema): Schema {
  if (schema.$ref !== undefined)
    return document.components.schemas[schema.$ref.replace('#/components/schemas/', '')] as Schema
  const [first, ...others] = (schema.anyOf ?? []).filter(({ type }) => type !== 'null')
  return first !== undefined && others.length === 0 ? resolveSchema(first) : schema
}

/** Returns the differences between a schema and a documented shape, as `path: problem`. */
function findDifferences(shape: Shape, reference: Schema | undefined, path: string): string[] {
  if (reference === undefined) return [`${path}: missing`]
  const schema = resolveSchema(reference)
  if (shape.type !== undefined && schema.type !== undefined && shape.type !== schema.type)
    return [`${path}: ${schema.type}, not ${shape.type}`]
  return [
    ...Object.entries(shape.fields ?? {}).flatMap(([name, field]) =>
      findDifferences(field, schema.properties?.[name], `${path}.${name}`),
    ),
    ...(shape.items === undefined ? [] : findDifferences(shape.items, schema.items, `${path}[]`)),
  ]
}

const getSchema = (content: Content | undefined): Schema | undefined => content?.['application/json']?.schema

test('describes the query, body and response of each route as documented', () => {
  const problems = documented.flatMap(({ method, path, request, response }) => {
    const name = `${method} ${path}`
    const operation = document.paths[path.replace('{slug}', '{organizationSlug}')]?.[method.toLowerCase()]
    if (operation === undefined) return [`${name}: missing`]
    const query = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query')
    const missingKeys = Object.keys(request.query).filter(
      (key) => !query.some((parameter) => parameter.name === key),
    )
    const { body } = request
    const success = getSchema(operation.responses['200']?.content)
    return [
      ...missingKeys.map((key) => `${name}: no ${key} in the query`),
      ...(body === null
        ? []
        : findDifferences(body.schema, getSchema(operation.requestBody?.content), `${name} body`)),
      ...(response.body === null
        ? success === undefined
          ? []
          : [`${name}: the response is not empty`]
        : findDifferences(response.body, success, `${name} response`)),
    ]
  })
  // the server rejects this field, whatever it contains
  const encryption = 'POST /v1/organizations/{organizationSlug}/databases body.remote_encryption'
  expect(problems).toEqual([
    `${encryption}.encryption_key: missing`,
    `${encryption}.encryption_cipher: missing`,
  ])
})

test('describes the security, path parameters and responses of each route', () => {
  expect(operations).toHaveLength(ROUTES.length)
  for (const [path, methods] of Object.entries(document.paths)) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    for (const { parameters = [], responses } of Object.values(methods)) {
      expect(parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)).toEqual(names)
      expect(getSchema(responses['default']?.content)).toEqual({ $ref: '#/components/schemas/Failure' })
    }
  }
  const publicOperations = operations.filter(({ security }) => security.length === 0)
  expect(publicOperations).toHaveLength(ROUTES.filter(({ access }) => access.level === 'none').length)
})

test('unsupported routes have no successful response', () => {
  const unsupported = ROUTES.filter(({ schemas }) => schemas === null)
  expect(unsupported.length).toBeGreaterThan(0)
  expect(operations.filter(({ responses }) => !('200' in responses))).toHaveLength(unsupported.length)
})

test('every reference points to a component, and an optional body is not required', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)]
  expect(references.length).toBeGreaterThan(50)
  for (const [, name] of references) expect(document.components.schemas).toHaveProperty(name as string)
  expect(JSON.stringify(document)).not.toContain('$defs')
  const { paths } = document
  expect(paths['/v1/auth/api-tokens/{tokenName}']?.['post']?.requestBody?.required).toBe(false)
  expect(paths['/v1/organizations']?.['post']?.requestBody?.required).toBe(true)
})
