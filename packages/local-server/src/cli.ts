#!/usr/bin/env node
import { oldNodeProblem } from './base/supported-node.ts'

const problem = oldNodeProblem(process.versions.node)
if (problem === null) {
  // only now: an old node may not even be able to read it
  const { main } = await import('./command/main.ts')
  process.exitCode = await main(process.argv.slice(2))
} else {
  console.error(problem)
  process.exitCode = 1
}
