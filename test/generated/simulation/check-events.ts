import type { ClientEvent } from '@batonsql/core'

/** Checks, based on the events of a client, that everything that began has ended exactly once. */
export function checkEvents(events: readonly ClientEvent[]): string[] {
  const ends = new Map<string, number>()
  for (const event of events) {
    if (!('id' in event)) continue
    const [kind, what] = event.type.split(':') as [string, string]
    if (what === 'expiring') continue
    const key = `${kind} ${event.id}`
    const isBegin = what === 'start' || what === 'begin'
    ends.set(key, (ends.get(key) ?? 0) + (isBegin ? 1 : -1))
  }
  return [...ends].flatMap(([key, open]) =>
    open === 0 ? [] : [`events of ${key}: ${open > 0 ? 'no end' : 'more than one end'}`],
  )
}
