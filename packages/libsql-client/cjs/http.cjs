'use strict'
module.exports = require('../dist/http.js')
