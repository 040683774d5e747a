import { accountCommand } from './platform-commands.ts'

/** Prints a line for each location, with its code and description. */
export const listLocations = accountCommand(async (platform, { signal }) => {
  const json = await platform.locations.list({ signal })
  return { json, text: [['CODE', 'DESCRIPTION'], ...Object.entries(json)] }
})
