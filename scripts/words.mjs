// Rejects words in shipped files (sources, docs, READMEs) that non-native readers stumble over, or that are vague, and a command that
// would run another package: on npm, `baton` is not ours.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const AVOIDED =
  /\b(?:npx (?:--?y(?:es)? )?baton|somebody|nobody|whoever|(?:is|are) told|in the same breath|came to nothing)\b/i
const SHIPPED =
  /^(?:(?:packages|internal)\/[^/]+\/(?:src\/(?!.*\.test\.ts$)|docs\/|README\.md)|docs\/|examples\/|site\/[^/]+\.(?:md|mjs)$|[A-Z]+\.md$|llms\.txt$)/

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
})
let violations = 0
for (const file of files
  .trim()
  .split('\n')
  .filter((path) => SHIPPED.test(path) && /\.(?:m?[jt]s|c|md|txt|html|css)$/.test(path))) {
  for (const [index, line] of readFileSync(file, 'utf8').split('\n').entries()) {
    const word = AVOIDED.exec(line)?.[0]
    if (word === undefined) continue
    violations += 1
    console.log(`${file}:${index + 1}: "${word}": ${line.trim().slice(0, 160)}`)
  }
}
process.exit(violations > 0 ? 1 : 0)
