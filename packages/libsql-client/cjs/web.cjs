'use strict'
module.exports = require('../dist/web.js')
