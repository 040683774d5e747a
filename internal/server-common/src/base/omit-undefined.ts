/** Returns the properties of an object that are set: an option that is undefined counts as omitted. */
export function omitUndefined<Options extends object>(options: Options): Options {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Options
}
