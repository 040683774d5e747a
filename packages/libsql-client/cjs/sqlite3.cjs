'use strict'
module.exports = require('../dist/sqlite3.js')
