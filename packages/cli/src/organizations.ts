import { accountCommand } from './platform-commands.ts'

export const listOrganizations = accountCommand(async (platform, { context: { signal } }) => {
  const json = (await platform.organizations.list({ signal })).map(({ slug, type, name }) => ({
    slug,
    type,
    name,
  }))
  return { json, text: [['SLUG', 'TYPE', 'NAME'], ...json.map(({ slug, type, name }) => [slug, type, name])] }
})

export const createOrganization = accountCommand(async (platform, { operands, context: { signal } }) => {
  const [name] = operands as [string]
  const { slug } = await platform.organizations.create({ name }, { signal })
  return { json: { slug, name }, text: `created ${slug}` }
})
