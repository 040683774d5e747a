import type { Signal } from '@preact/signals'
import type { JSX } from 'preact'

/** A checkbox with its label. */
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
        onChange={(event) => {
          checked.value = event.currentTarget.checked
        }}
      />{' '}
      {label}
    </label>
  )
}
