import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { TemporaryDirectory } from './temporary-directory.ts'

test('any number of directories share one listener for the exit of the process', async () => {
  const count = process.listenerCount('exit')
  const directories = await Promise.all(
    Array.from({ length: 12 }, () => TemporaryDirectory.create('baton-test-')),
  )
  expect(process.listenerCount('exit')).toBe(count + 1)
  // the last listener is that of the directories
  process.listeners('exit').at(-1)?.(0)
  expect(directories.filter(({ path }) => existsSync(path))).toEqual([])
  await Promise.all(directories.map((directory) => directory.remove()))
  expect(process.listenerCount('exit')).toBe(count)
})

test('the directory of a process that was killed is removed by the next one, unlike those of running processes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const module = JSON.stringify(new URL('temporary-directory.ts', import.meta.url).href)
  const program = `const { TemporaryDirectory } = await import(${module})
    await TemporaryDirectory.create('baton-' + process.argv[1])
    await TemporaryDirectory.create('baton-other-')
    console.log('created')
    setInterval(() => {}, 1e6)`
  const start = async (name: string) => {
    const args = ['--conditions=@batonsql/source', '--input-type=module', '--eval', program, name]
    const env = { ...process.env, TMPDIR: folder, TEMP: folder }
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    return child
  }
  const kill = async (child: Awaited<ReturnType<typeof start>>) => {
    child.kill('SIGKILL')
    await text(child.stdout)
  }
  const running = await start('running-')
  const killed = await start('killed-')
  mkdirSync(join(folder, `baton-${killed.pid}-another-machine`))
  await kill(killed)
  await start('')
  const pids = readdirSync(folder).map((name) => Number(/\d+/.exec(name)?.[0]))
  expect(pids.filter((pid) => pid === running.pid)).toHaveLength(2)
  expect(pids.filter((pid) => pid === killed.pid)).toHaveLength(1)
})
