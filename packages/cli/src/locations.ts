import { accountCommand } from './platform-commands.ts'

export const listLocations = accountCommand(async (platform, { context: { signal } }) => {
  const json = await platform.locations.list({ signal })
  return { json, text: [['CODE', 'DESCRIPTION'], ...Object.entries(json)] }
})
