import { expect, test } from 'vitest'
import { runAll } from './run-all.ts'

const fail = (message: string) => () => Promise.reject(new Error(message))

test('runs all steps, and throws the error of the one that fails', async () => {
  const ran: string[] = []
  const error = new Error('first')
  const steps = [() => Promise.reject(error), () => void ran.push('second')]
  await expect(runAll(steps)).rejects.toBe(error)
  await runAll([() => void ran.push('third')])
  expect(ran).toEqual(['second', 'third'])
})

test('throws all errors if several steps fail', async () => {
  const error = await runAll([fail('first'), () => {}, fail('second')]).catch((reason: unknown) => reason)
  expect(error).toMatchObject({
    message: 'first; second',
    errors: [{ message: 'first' }, { message: 'second' }],
  })
})
