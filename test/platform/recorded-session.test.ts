import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Scene } from './platform-scene.ts'
import { replaySession } from './recorded-session.ts'

const RECORDED_SESSION = new URL('../fixtures/command-line-session.txt', import.meta.url)

test('the printed session matches the recorded one on both back ends', async () => {
  const scene = await Scene.forTest()
  const transcript = await replaySession(scene.platform)
  if (process.env['UPDATE_DOCS'] !== undefined) writeFileSync(RECORDED_SESSION, transcript)
  expect(transcript).toBe(readFileSync(RECORDED_SESSION, 'utf8'))
})

test('a session in which a command fails is not printed', async () => {
  const scene = await Scene.forTest({ organization: 'other' })
  await expect(replaySession(scene.platform)).rejects.toThrow('organization not found')
})
