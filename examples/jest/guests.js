const { isUniqueViolation } = require('@batonsql/core')

/** The code under test, which receives its client. */
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
