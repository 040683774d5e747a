import { expect, test } from 'vitest'
import { ProtocolError } from '../base/errors.ts'
import { EventParser } from './event-parser.ts'

const LONG = 'x'.repeat(900_000)

/** Returns the events of a text that arrives in one part, and the message of the error that follows. */
function parse(text: string): [events: unknown[], message: string | null] {
  const events: unknown[] = []
  try {
    for (const event of new EventParser().push(new TextEncoder().encode(text))) if (event) events.push(event)
    return [events, null]
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError)
    return [events, (error as Error).message]
  }
}

test.each([
  ['an event that is too long', `data: ${LONG}${LONG}`, 'server-sent event too large'],
  ['other text', '<html>\n', 'the response is not an event stream'],
])('yields the events before %s in the same part', (_, text, message) => {
  expect(parse(`data: 1\n\n${text}`)).toEqual([[{ event: 'message', data: '1' }], message])
})

test('each part of an event counts towards its length', () => {
  expect(parse(`event: ${LONG}\ndata: ${LONG}\n`)).toEqual([[], 'server-sent event too large'])
  expect(parse(`event: ${LONG}\n`)).toEqual([[], null])
})
