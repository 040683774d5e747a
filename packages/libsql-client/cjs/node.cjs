'use strict'
module.exports = require('../dist/node.js')
