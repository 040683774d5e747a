#!/usr/bin/env node
import { findNodeProblem } from './find-node-problem.ts'

const problem = findNodeProblem(process.versions.node)
if (problem === null) {
  // imported after the check, because an old version may not be able to parse the module
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2))
} else {
  console.error(problem)
  process.exitCode = 1
}
