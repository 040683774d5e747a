/** A shape in the notation of the fixture. */
export interface Shape {
  readonly type?: string
  readonly nullable?: boolean
  readonly deprecated?: boolean
  readonly enum?: readonly unknown[]
  readonly fields?: Readonly<Record<string, Shape>>
  readonly values?: Shape
  readonly items?: Shape
}

/** Compares a value with a shape. @returns the mismatches, each as `path: problem`. Additional fields are allowed. */
export function findMismatches(shape: Shape | null, value: unknown, path = 'body'): string[] {
  if (shape === null) return value === undefined ? [] : [`${path}: should be empty`]
  if (value === null && shape.nullable === true) return []
  if (shape.enum !== undefined && !shape.enum.includes(value))
    return [`${path}: ${String(value)} is not ${shape.enum.join('|')}`]
  switch (shape.type) {
    case 'object': {
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        return [`${path}: not an object`]
      const entries = Object.entries(value)
      const fieldMismatches = Object.entries(shape.fields ?? {}).flatMap(([name, field]) => {
        const member = (value as Readonly<Record<string, unknown>>)[name]
        return member === undefined
          ? [`${path}.${name}: missing`]
          : findMismatches(field, member, `${path}.${name}`)
      })
      const { values } = shape
      const valueMismatches =
        values === undefined
          ? []
          : entries.flatMap(([name, item]) => findMismatches(values, item, `${path}.${name}`))
      return [...fieldMismatches, ...valueMismatches]
    }
    case 'array':
      if (!Array.isArray(value)) return [`${path}: not an array`]
      return value.flatMap((item, index) => findMismatches(shape.items ?? {}, item, `${path}[${index}]`))
    case 'integer':
      return Number.isInteger(value) ? [] : [`${path}: not an integer`]
    case undefined:
      return []
    default:
      return typeof value === shape.type ? [] : [`${path}: ${typeof value}, not ${shape.type}`]
  }
}
