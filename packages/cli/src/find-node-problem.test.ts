import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { findNodeProblem } from './find-node-problem.ts'

const manifest = new URL('../package.json', import.meta.url)
const { engines } = JSON.parse(readFileSync(manifest, 'utf8')) as { engines: { node: string } }
const oldestVersion = engines.node.replace('>=', '')

test.each([`${oldestVersion}.0`, '22.20.1', '24.0.0'])('accepts node %s', (version) => {
  expect(findNodeProblem(version)).toBeNull()
})

test.each(['22.18.0', '20.19.5', '8.17.0'])('rejects node %s', (version) => {
  expect(findNodeProblem(version)).toBe(
    `@batonsql/cli requires node ${oldestVersion} or newer, but this is node ${version}`,
  )
})
