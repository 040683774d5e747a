import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Checkbox } from './checkbox.tsx'
import { DataTab } from './data-tab.tsx'
import { copySelected } from './request-details.tsx'
import { moveSelection, RequestsTab } from './requests-tab.tsx'
import {
  connection,
  countNewRequests,
  errorsOnly,
  fileName,
  filter,
  openFile,
  pausedAt,
  returnToLive,
  selectedNumber,
  serverVersion,
  set,
  status,
  tab,
  togglePause,
} from './state.ts'

const TABS = [
  ['requests', 'Requests'],
  ['data', 'Data'],
] as const

export function App(): JSX.Element {
  useEffect(listen, [])
  return (
    <>
      <header>
        <h1>
          Baton <span id="source">{sourceText()}</span>
        </h1>
        <div role="tablist" class="tabs" aria-label="Views" onKeyDown={onTabKey}>
          {TABS.map(([name, text]) => (
            <button
              key={name}
              type="button"
              role="tab"
              id={`tab-${name}`}
              aria-selected={tab.value === name}
              aria-controls="view"
              tabIndex={tab.value === name ? 0 : -1}
              onClick={() => set(tab, name)}
            >
              {text}
            </button>
          ))}
        </div>
        <p class="about" data-connection={connection.value}>
          <span id="connection">{connection}</span> {serverVersion}
        </p>
        {tab.value === 'requests' && <RequestTools />}
      </header>
      <main>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${tab.value}`}>
          {tab.value === 'requests' ? <RequestsTab /> : <DataTab />}
        </div>
        <p id="status" role="status">
          {status}
        </p>
      </main>
    </>
  )
}

function sourceText(): string {
  return fileName.value ?? (connection.value === 'not connected' ? 'not live' : 'live')
}

/** Moves between tabs with the arrow keys. */
function onTabKey(event: KeyboardEvent): void {
  if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return
  event.preventDefault()
  event.stopPropagation()
  tab.value = tab.value === 'requests' ? 'data' : 'requests'
  document.getElementById(`tab-${tab.value}`)?.focus()
}

function RequestTools(): JSX.Element {
  const input = useRef<HTMLInputElement>(null)
  const isPaused = pausedAt.value !== null
  const newRequests = countNewRequests()
  const newText = newRequests > 0 ? ` (${newRequests} new)` : ''
  return (
    <div class="tools">
      <label class="search">
        <span class="hidden">Filter</span>
        <input
          id="filter"
          type="search"
          placeholder="Filter statements, databases, errors"
          aria-keyshortcuts="/"
          autocomplete="off"
          spellcheck={false}
          value={filter}
          onInput={(event) => set(filter, event.currentTarget.value)}
        />
      </label>
      <Checkbox id="errors-only" label="Errors only" checked={errorsOnly} />
      {fileName.value === null ? (
        <button id="pause" type="button" aria-pressed={isPaused} aria-keyshortcuts="p" onClick={togglePause}>
          {isPaused ? `Resume${newText}` : 'Pause'}
        </button>
      ) : (
        <button id="back" type="button" onClick={returnToLive}>
          Back to live
        </button>
      )}
      <button type="button" onClick={() => input.current?.click()}>
        Open event log
      </button>
      <input
        ref={input}
        id="file"
        type="file"
        accept=".jsonl,.ndjson,.log,.json,.txt"
        aria-label="Event log"
        hidden
        onChange={(event) => {
          void openFile(event.currentTarget.files?.[0])
          event.currentTarget.value = ''
        }}
      />
    </div>
  )
}

/** Listens for key presses and for files dropped on the page. */
function listen(): () => void {
  const listeners = new AbortController()
  const { signal } = listeners
  document.addEventListener('keydown', onKey, { signal })
  document.addEventListener('dragover', (event) => event.preventDefault(), { signal })
  document.addEventListener(
    'drop',
    (event) => {
      event.preventDefault()
      tab.value = 'requests'
      void openFile(event.dataTransfer?.files[0])
    },
    { signal },
  )
  return () => listeners.abort()
}

const isField = (target: EventTarget | null): boolean =>
  target instanceof Element && target.matches('input, select, textarea')

function onKey(event: KeyboardEvent): void {
  if (tab.value !== 'requests' || event.ctrlKey || event.metaKey || event.altKey) return
  if (event.key === 'Escape') {
    if (event.target instanceof HTMLInputElement) event.target.blur()
    selectedNumber.value = null
    return
  }
  if (isField(event.target)) return
  const action = {
    '/': () => document.getElementById('filter')?.focus(),
    p: () => fileName.value === null && togglePause(),
    c: copySelected,
  }[event.key]
  if (action === undefined) return moveSelection(event)
  event.preventDefault()
  action()
}
