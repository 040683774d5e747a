import type { Signal } from '@preact/signals'
import type { JSX } from 'preact'
import { set } from './state.ts'

export function Checkbox({
  id,
  label,
  checked,
}: {
  id: string
  label: string
  checked: Signal<boolean>
}): JSX.Element {
  return (
    <label class="check">
      <input
        id={id}
        type="checkbox"
        checked={checked}
        onChange={(event) => set(checked, event.currentTarget.checked)}
      />{' '}
      {label}
    </label>
  )
}
