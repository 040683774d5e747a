// Prints what a pull request changes in bundle sizes, and which of Baton's speeds are worse than recorded, as Markdown:
// pull-request-report.mjs BASE BENCH, with a built checkout of the target branch and the output of `npm run bench -- … --compare`.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const [base = '', bench = ''] = process.argv.slice(2)

/** Returns the sizes that scripts/size.mjs prints, by name. */
function readSizes(cwd) {
  const { stdout } = spawnSync(process.execPath, ['scripts/size.mjs'], { cwd, encoding: 'utf8' })
  const lines = [...stdout.matchAll(/(\d+) of (\d+) bytes gzip .*\): (.+)$/gm)]
  return new Map(lines.map(([, size, limit, name]) => [name, { size: Number(size), limit: Number(limit) }]))
}

const before = readSizes(base)
console.log('| bytes after gzip | before | after | change | limit |\n|---|---|---|---|---|')
for (const [name, { size, limit }] of readSizes('.')) {
  const earlier = before.get(name)?.size
  const change = earlier === undefined ? 'new' : `${size < earlier ? '' : '+'}${size - earlier}`
  console.log(`| ${name} | ${earlier ?? '–'} | ${size} | ${change} | ${limit} |`)
}
const output = readFileSync(bench, 'utf8')
const worse = [...output.matchAll(/^worse: (.*)$/gm)].map(([, line]) => `- ${line}`)
if (!/goals missed$/m.test(output)) console.log('\nThe benchmark did not finish; see the log of this run.')
else if (worse.length === 0) console.log('\nNo speed is more than 10 % worse than recorded.')
else
  console.log(
    `\nMore than 10 % worse than recorded, relative to raw undici in the same run:\n\n${worse.join('\n')}`,
  )
