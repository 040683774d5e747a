// The script of the action `.github/actions/branch-database`, as a runner of GitHub runs it.
import { spawn } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { Harness, sql } from '../../platform/platform-harness.ts'
import { batonCommand, batonEnv, collectOutput, killAfterTests } from '../../support/baton-command.ts'
import { createTemporaryDirectory } from '../../support/temporary-directory.ts'

const SCRIPT = fileURLToPath(
  new URL('../../../.github/actions/branch-database/branch-database.sh', import.meta.url),
)
const harness = await Harness.start()
const folder = createTemporaryDirectory(afterAll)
afterAll(() => harness[Symbol.asyncDispose]())

/** Runs the script. @returns also its outputs and the comment */
async function runAction(event: string, migration: string) {
  const file = join(folder, 'migration.sql')
  await writeFile(file, migration)
  const [outputFile, summaryFile] = [join(folder, 'output'), join(folder, 'summary')]
  for (const path of [outputFile, summaryFile]) await writeFile(path, '')
  const command = batonCommand(['sql', '--file', file])
    .map((word) => `'${word}'`)
    .join(' ')
  const child = spawn(SCRIPT, [], {
    env: batonEnv({
      BATON_API_URL: harness.platform.url,
      BATON_API_TOKEN: harness.platform.token,
      ORGANIZATION: 'local',
      DATABASE: 'app',
      COMMAND: command,
      TOKEN_EXPIRATION: '1h',
      EVENT: event,
      NUMBER: '7',
      RUNNER_TEMP: folder,
      GITHUB_OUTPUT: outputFile,
      GITHUB_STEP_SUMMARY: summaryFile,
    }),
  })
  killAfterTests(child)
  const { code, output, errors } = await collectOutput(child)
  const outputs = Object.fromEntries(
    (await readFile(outputFile, 'utf8')).split('\n').map((line) => line.split(/=(.*)/s).slice(0, 2)),
  ) as Readonly<Record<string, string | undefined>>
  return { code, log: output + errors, outputs, comment: await readFile(summaryFile, 'utf8') }
}

const listNames = async (): Promise<readonly string[]> => {
  const { databases } = await harness.requestOk('GET', 'databases')
  return databases.map(({ Name }: { readonly Name: string }) => Name).toSorted()
}
const toHost = (url = ''): string => url.replace(/^http:\/\//, '').replace(/\/$/, '')

test('a pull request gets a migrated copy and a comment, and the copy goes with it', async () => {
  const { host, token } = await harness.openDatabase('app', [
    'create table pet (name)',
    "insert into pet values ('Rex')",
  ])
  const opened = await runAction('opened', 'alter table pet add column age')
  expect(opened.log).toContain(`::add-mask::${opened.outputs['token']}\n`)
  // including the token of the rehearsal
  expect(opened.log.match(/^::add-mask::ey/gm)).toHaveLength(2)
  expect([opened.code, opened.outputs['report']]).toEqual([0, join(folder, 'app-pr-7.md')])
  expect(opened.comment).toContain('### Rehearsal on a copy')
  expect(opened.comment).toContain('- ~ table pet')
  const readBranch = async (statement: string, { url, token: branchToken = '' } = opened.outputs) =>
    (await sql(toHost(url), branchToken, statement)).rows
  expect(await readBranch('select name, age is null from pet')).toEqual([['Rex', '1']])
  expect((await sql(host, token, "select count(*) from pragma_table_info('pet')")).rows).toEqual([['1']])

  // a new commit: the copy begins again with the latest state
  await sql(host, token, "insert into pet values ('Tom')")
  const next = await runAction('synchronize', 'alter table pet add column kind')
  expect(next.code).toBe(0)
  expect(await readBranch('select name, kind is null from pet', next.outputs)).toEqual([
    ['Rex', '1'],
    ['Tom', '1'],
  ])

  const losing = await runAction('synchronize', 'delete from pet')
  expect([losing.code, losing.outputs['url']]).toEqual([1, undefined])
  expect(losing.comment).toContain('**Losses**\n\n- pet: 2 -\\> 0 rows')
  expect(await listNames()).toEqual(['app', 'app-pr-7', 'default'])
  // what cannot be rehearsed is commented, too
  const failing = await runAction('synchronize', 'nonsense')
  expect([failing.code, failing.comment]).toEqual([1, expect.stringContaining('failed with exit code 1')])

  for (let count = 0; count < 2; count += 1) expect((await runAction('closed', '')).code).toBe(0)
  expect(await listNames()).toEqual(['app', 'default'])
  expect((await sql(host, token, 'select name from pet')).rows).toEqual([['Rex'], ['Tom']])
})
