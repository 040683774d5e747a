/*
 * Runs generated calls to every allowed function in the engine under a sanitizer:
 * `node internal/embedded-engine/wasm/build.mjs --sanitize /tmp/engine`, then
 * `node test/security/programs/fuzz-sanitized.ts /tmp/engine 100000 [seed]`.
 */
import { spawnSync } from 'node:child_process'
import { seeded } from '../../support/random.ts'
import { CALL_SCHEMA, generateCall } from '../generated-calls.ts'

const CALLS_PER_RUN = 2_000

const [engine = '', count = '10000', seed = '1'] = process.argv.slice(2)
const env = {
  ASAN_OPTIONS: 'detect_leaks=0:allocator_may_return_null=1',
  UBSAN_OPTIONS: 'print_stacktrace=1',
}
const findings = new Map<string, string>()
for (let completed = 0; completed < Number(count); completed += CALLS_PER_RUN) {
  const random = seeded(Number(seed) + completed)
  let calls = Array.from({ length: CALLS_PER_RUN }, () => generateCall(random))
  while (calls.length > 0) {
    const input = [...CALL_SCHEMA, ...calls].join('\n')
    const { status, stdout, stderr } = spawnSync(engine, { input, env, maxBuffer: 2 ** 30, encoding: 'utf8' })
    collectFindings(stderr)
    console.log(
      `seed ${Number(seed) + completed}: ${stdout.trim() || 'ended'}, ${findings.size} kinds of findings`,
    )
    if (status === 0) break
    // continue after the statement that crashed the engine
    const crashIndex = calls.findLastIndex((call) => stderr.includes(`\n${call}\n`))
    calls = calls.slice(crashIndex + 1)
  }
}
for (const [location, report] of findings) console.log(`\n=== ${location}\n${report}`)
process.exitCode = findings.size === 0 ? 0 : 1

function collectFindings(output: string): void {
  const lines = output.split('\n')
  for (const [index, line] of lines.entries()) {
    if (!/runtime error: |ERROR: \w+Sanitizer: /.test(line)) continue
    const report = lines.slice(Math.max(0, index - 2), index + 14).join('\n')
    const frame = lines
      .slice(index, index + 14)
      .find((text) => /#[0-9]+ .* in (?!_*asan|__)\w+ .*\.c:/.test(text))
    const location = `${line.replace(/0x[0-9a-f]+|-?\d[\d.e+-]{3,}|==\d+==/g, '#')} ${frame?.replace(/.* in (\w+).*/, '$1')}`
    if (!findings.has(location)) findings.set(location, report)
  }
}
