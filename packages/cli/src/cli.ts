#!/usr/bin/env node
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major > 22 || (major === 22 && minor >= 19)) {
  // imported after the check, because an old version may not be able to parse the module
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2))
} else {
  console.error(`@batonsql/cli requires node 22.19 or newer, but this is node ${process.versions.node}`)
  process.exitCode = 1
}
