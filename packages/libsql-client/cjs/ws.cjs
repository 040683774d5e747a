'use strict'
module.exports = require('../dist/ws.js')
