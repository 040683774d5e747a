import { accountCommand } from './platform-commands.ts'

/** Prints a line for each of the user's organizations, with its slug, type and name. */
export const listOrganizations = accountCommand(async (platform, { signal }) => {
  const json = (await platform.organizations.list({ signal })).map(({ slug, type, name }) => ({
    slug,
    type,
    name,
  }))
  return { json, text: [['SLUG', 'TYPE', 'NAME'], ...json.map(({ slug, type, name }) => [slug, type, name])] }
})

/** Creates an organization, and prints its slug. */
export const createOrganization = accountCommand(async (platform, { operands, signal }) => {
  const [name] = operands as [string]
  const { slug } = await platform.organizations.create({ name }, { signal })
  return { json: { slug, name }, text: `created ${slug}` }
})
