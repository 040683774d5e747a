const { isUniqueViolation } = require('@batonsql/core')

/** What is tested: it gets the client that it uses. */
async function addGuest(db, name) {
  try {
    const { rows } = await db.execute('insert into guest (name) values (?) returning id, name', [name])
    return rows[0]
  } catch (error) {
    if (isUniqueViolation(error)) return null
    throw error
  }
}

module.exports = { addGuest }
