import { readdirSync, readFileSync } from 'node:fs'
import { completeTranscript } from './complete-transcript.ts'

/** One exchange of a recorded case. */
export interface TranscriptStep {
  readonly note?: string
  readonly action?: string
  readonly after_wait_ms?: number
  readonly started_in_background?: string
  /** When the client disconnects without waiting for the end of the response. */
  readonly disconnects_after_ms?: number
  /** How long to read a stream of events. */
  readonly listen_ms?: number
  readonly request: {
    readonly port?: 'admin'
    readonly http?: string
    readonly method: string
    readonly path: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  }
  readonly response: {
    readonly status?: number
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
    readonly body_base64?: string
    readonly chunks?: readonly { readonly text: string }[]
    readonly end?: string
    readonly aborted_by_client?: true
    /** Rounded; present for responses that took a long time. */
    readonly took_s?: number
  }
}

/** A recorded case: the requests that were sent to the real server, and the responses. */
export interface Transcript {
  readonly id: number
  readonly title: string
  readonly server: 'plain' | 'ns' | 'auth'
  readonly setup?: string | Readonly<Record<string, string>>
  readonly namespaces?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly steps: readonly TranscriptStep[]
}

/** Reads all recorded cases, sorted by number. */
export function readTranscripts(): Transcript[] {
  const folder = new URL('../fixtures/transcripts/', import.meta.url)
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .sort()
    .map((file) =>
      completeTranscript(
        JSON.parse(shorten(file, readFileSync(new URL(file, folder), 'utf8'))) as Transcript,
      ),
    )
}

/** Shortens the statement of case 223 from 40,000,000 rows to 400,000, because it would be interrupted on a slow machine. */
function shorten(file: string, text: string): string {
  return file.startsWith('223-') ? text.replaceAll(/\b4000000(?=[01]\b)/g, '40000') : text
}

/** Returns the time that a case spends waiting, in ms. */
export function waitingTimeMs(transcript: Transcript): number {
  return transcript.steps.reduce((sum, step) => sum + (step.after_wait_ms ?? 0) + (step.listen_ms ?? 0), 0)
}
