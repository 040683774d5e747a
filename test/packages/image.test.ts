import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { createClient } from '@batonsql/core'
import { GenericContainer, Wait } from 'testcontainers'
import { afterAll, expect, inject, test } from 'vitest'
import { findTargets } from '../support/targets.ts'
import { createTemporaryDirectory } from '../support/temporary-directory.ts'
import { ROOT } from './run.ts'
import { openTarball } from './tarballs.ts'

const PORT = 8080
const INSTALL_COMMAND = 'RUN npm install --no-audit --no-fund @batonsql/cli @batonsql/local-server '
const folder = createTemporaryDirectory(afterAll)

/** Builds the image of the local server, with the packages of this checkout instead of the published ones. */
async function buildImage(): Promise<GenericContainer> {
  for (const name of ['core', 'platform', 'local-server', 'cli']) {
    const { file } = await openTarball(name, inject('packed'))
    copyFileSync(file, join(folder, basename(file)))
  }
  const dockerfile = readFileSync(join(ROOT, 'packages/cli/Dockerfile'), 'utf8')
  const install = INSTALL_COMMAND.replace('@batonsql/cli @batonsql/local-server', './*.tgz')
  expect(dockerfile).toContain(INSTALL_COMMAND)
  writeFileSync(join(folder, 'Dockerfile'), dockerfile.replace(INSTALL_COMMAND, `COPY *.tgz ./\n${install}`))
  return await GenericContainer.fromDockerfile(folder).build()
}

test('the image of the local server requires its token, and keeps databases across restarts', {
  timeout: 600_000,
}, async ({ skip }) => {
  const { unavailableReason } = (await findTargets()).find(({ name }) => name === 'container') ?? {}
  if (unavailableReason) skip(`image of the local server: ${unavailableReason}`)
  const image = (await buildImage()).withExposedPorts(PORT).withWaitStrategy(Wait.forHealthCheck())
  await using container = await image.start()
  expect((await container.exec(['id', '-un'])).output.trim()).toBe('node')
  const connect = (authToken?: string) =>
    createClient({ url: `http://${container.getHost()}:${container.getMappedPort(PORT)}`, authToken })
  const readToken = async (): Promise<string> =>
    JSON.parse((await container.exec(['cat', '/data/tokens.json'])).output).databases.default.token

  const withoutToken = connect()
  await expect(withoutToken.execute('select 1')).rejects.toMatchObject({ status: 401 })
  const dbBeforeRestart = connect(await readToken())
  await dbBeforeRestart.batch(['create table note (text)', "insert into note values ('kept')"])
  await container.restart()
  const dbAfterRestart = connect(await readToken())
  expect((await dbAfterRestart.execute('select text from note')).rows).toEqual([{ text: 'kept' }])
  await Promise.all([withoutToken, dbBeforeRestart, dbAfterRestart].map((db) => db.close()))
})
