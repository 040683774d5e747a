import { expect, test } from 'vitest'
import { CallBoard } from './call-board.ts'

test('a call that has begun stays begun, however many begin after it', () => {
  const server = new CallBoard()
  const worker = new CallBoard(server.memory)
  expect(server.hasBegun(1)).toBe(false)
  for (let call = 1; call <= 5_000; call += 1) worker.begin(call)
  expect([1, 2, 3_976, 5_000, 5_001].map((call) => server.hasBegun(call))).toEqual([
    true,
    true,
    true,
    true,
    false,
  ])
})

test('only the call that is meant is interrupted, unless everything ends', () => {
  const board = new CallBoard()
  board.interrupt(2)
  board.current = 1
  expect(board.isInterrupted).toBe(false)
  board.current = 2
  expect(board.isInterrupted).toBe(true)
  board.current = 1
  board.end()
  expect([board.isInterrupted, board.isEnding]).toEqual([true, true])
  board.current = 0
  expect(board.isInterrupted).toBe(false)
})
