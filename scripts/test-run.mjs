import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** Node's arguments to run vitest. */
export const VITEST = [
  '--conditions=@batonsql/source',
  'node_modules/vitest/vitest.mjs',
  'run',
  '--configLoader',
  'native',
]

/** The module that delays all requests, loaded if TEST_REQUEST_DELAY_MS is set. */
const DELAYS = new URL('../test/support/delayed-requests.mjs', import.meta.url).href

/** Caches that third-party tools keep in the temporary directory. */
const CACHES = /^(?:tsx-\d+|jest_\d+|jiti|node-compile-cache|v8-compile-cache-\d+|\.?com\.google\..*)$/

/**
 * A run of the tests, with its own temporary directory, which is removed at the end, even if the run fails or is interrupted.
 */
export class TestRun {
  // short, because it contains sockets, whose paths are limited to about 100 characters
  #directory = mkdtempSync(join(tmpdir(), 'bt-'))
  #temporary = join(this.#directory, 't')
  #summary = join(this.#directory, 'summary.json')

  constructor() {
    mkdirSync(this.#temporary)
    // vitest also receives Ctrl-C, and exits; then the directory is removed
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {})
  }

  /** Runs vitest. Resolves with its exit code and the counts of test/support/summary-reporter.ts. */
  async vitest(args) {
    rmSync(this.#summary, { force: true })
    const env = {
      ...process.env,
      TMPDIR: this.#temporary,
      // servers that tests kill leave a link there
      XDG_RUNTIME_DIR: this.#directory,
      BATON_TEST_SUMMARY: this.#summary,
    }
    if (env.TEST_REQUEST_DELAY_MS !== undefined)
      env.NODE_OPTIONS = `${env.NODE_OPTIONS ?? ''} --import ${DELAYS}`
    const child = spawn(process.execPath, [...VITEST, ...args], { stdio: 'inherit', env })
    const status = await new Promise((resolve) => child.on('close', (code) => resolve(code ?? 1)))
    const counts = { passed: 0, failed: 0, skipped: 0 }
    try {
      return { ...counts, status, ...JSON.parse(readFileSync(this.#summary, 'utf8')) }
    } catch {
      return { ...counts, status } // it exited before writing the summary
    }
  }

  /** Ends the run and kills leftover processes. @returns these processes, and the leftover entries of the temporary directory */
  async end() {
    let processes = this.#processes()
    // killed processes may take a moment to exit
    for (let check = 0; processes.length > 0 && check < 50; check += 1) {
      await sleep(100)
      processes = this.#processes()
    }
    const entries = readdirSync(this.#temporary, { withFileTypes: true })
      .filter(({ name }) => !CACHES.test(name))
      .map((entry) => {
        if (!entry.isDirectory()) return entry.name
        const files = readdirSync(join(this.#temporary, entry.name), { recursive: true })
        return `${entry.name} (${files.slice(0, 20).join(', ') || 'empty'})`
      })
    for (const { pid } of processes) process.kill(pid, 'SIGKILL')
    rmSync(this.#directory, { recursive: true, force: true })
    return { entries, processes: processes.map(({ pid, command }) => `${pid} (${command})`) }
  }

  /** Returns the processes that use the temporary directory of this run, if the system can list them. */
  #processes() {
    const read = (pid, file) => {
      try {
        return readFileSync(`/proc/${pid}/${file}`, 'utf8')
      } catch {
        return '' // it has exited, or belongs to another user
      }
    }
    const pids = process.platform === 'linux' ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : []
    return pids
      .filter((pid) => read(pid, 'environ').split('\0').includes(`TMPDIR=${this.#temporary}`))
      .map((pid) => ({ pid: Number(pid), command: read(pid, 'cmdline').replaceAll('\0', ' ').slice(0, 120) }))
  }
}
