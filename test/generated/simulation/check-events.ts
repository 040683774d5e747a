import type { ClientEvent } from '@batonsql/core'

/** Checks that everything that began according to the events of a client ended exactly once. */
export function checkEvents(events: readonly ClientEvent[]): string[] {
  const ends = new Map<string, number>()
  for (const event of events) {
    if (!('id' in event)) continue
    const [kind, phase] = event.type.split(':') as [string, string]
    if (phase === 'expiring') continue
    const key = `${kind} ${event.id}`
    const isBegin = phase === 'start' || phase === 'begin'
    ends.set(key, (ends.get(key) ?? 0) + (isBegin ? 1 : -1))
  }
  return [...ends].flatMap(([key, openCount]) =>
    openCount === 0 ? [] : [`events of ${key}: ${openCount > 0 ? 'no end' : 'more than one end'}`],
  )
}
