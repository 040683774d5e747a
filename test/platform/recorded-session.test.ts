import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Harness } from './platform-harness.ts'
import { replaySession } from './recorded-session.ts'

const RECORDED_SESSION = new URL('../fixtures/command-line-session.txt', import.meta.url)

test('the printed session matches the recorded one on both back ends', async () => {
  const harness = await Harness.forTest()
  const transcript = await replaySession(harness.platform)
  if (process.env['UPDATE_DOCS'] !== undefined) writeFileSync(RECORDED_SESSION, transcript)
  expect(transcript, 'UPDATE_DOCS=1 records the session again').toBe(readFileSync(RECORDED_SESSION, 'utf8'))
})

test('a session in which a command fails is not printed', async () => {
  const harness = await Harness.forTest({ organization: 'other' })
  await expect(replaySession(harness.platform)).rejects.toThrow('organization not found')
})
