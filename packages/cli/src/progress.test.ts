import { PassThrough } from 'node:stream'
import { beforeEach, expect, test, vi } from 'vitest'
import { Progress } from './progress.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))

function openProgress(isTTY: boolean) {
  const stderr = Object.assign(new PassThrough(), { isTTY })
  const progress = new Progress(stderr)
  return { progress, read: () => String(stderr.read() ?? '') }
}

test('shows a percentage, and after a second the time that is left', () => {
  const { progress, read } = openProgress(true)
  vi.advanceTimersByTime(500)
  progress.show('10 rows', 0.5)
  expect(read()).toBe('\r10 rows, 50 %')
  vi.advanceTimersByTime(99)
  progress.show('11 rows', 0.5)
  expect(read()).toBe('')
  vi.advanceTimersByTime(29_401)
  progress.show('20 rows', 0.25)
  expect(read()).toBe('\r20 rows, 25 %, 1:30 left')
  // a shorter line overwrites all of the previous one
  vi.advanceTimersByTime(1_000)
  progress.show('40 rows', 1)
  expect(read()).toBe(`\r${'40 rows, 100 %'.padEnd('20 rows, 25 %, 1:30 left'.length)}`)
  progress.end()
  expect(read()).toMatch(/40 rows, 100 %\s*\n$/)
  progress.end()
  expect(read()).toBe('')
})

test('without a known total there is only the text, and without a terminal there is nothing', () => {
  const unknown = openProgress(true)
  vi.advanceTimersByTime(5_000)
  unknown.progress.show('7 statements')
  expect(unknown.read()).toBe('\r7 statements')
  const file = openProgress(false)
  vi.advanceTimersByTime(5_000)
  file.progress.show('7 statements', 0.5)
  file.progress.end()
  expect(file.read()).toBe('')
})
