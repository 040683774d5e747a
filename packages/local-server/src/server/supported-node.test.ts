import { readFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { findNodeProblem } from './supported-node.ts'

const manifest = new URL('../../package.json', import.meta.url)
const { engines } = JSON.parse(readFileSync(manifest, 'utf8')) as { engines: { node: string } }
const oldestVersion = `${engines.node.replace('>=', '')}.0`

test.each([oldestVersion, '22.20.1', '24.0.0', '100.1.0'])('node %s is supported', (version) => {
  expect(findNodeProblem(version)).toBeNull()
})

test.each(['22.18.0', '22.2.0', '20.19.5', '18.20.8', '8.17.0'])('node %s is rejected', (version) => {
  expect(findNodeProblem(version)).toBe(
    `@batonsql/local-server requires node ${engines.node.replace('>=', '')} or newer, but this is node ${version}`,
  )
})

test.each(['index', 'sqld', 'testing'])('the entry point %s rejects an old version of node', async (name) => {
  const version = process.versions.node
  const setVersion = (value: string): unknown => Object.defineProperty(process.versions, 'node', { value })
  onTestFinished(() => void setVersion(version))
  setVersion('22.18.0')
  // with a query, because an entry point that is already loaded would not be executed again
  await expect(import(`../${name}.ts?old-node`)).rejects.toThrow('but this is node 22.18.0')
})
