import theme from 'vitepress/theme-without-fonts'
import { h } from 'vue'
import program from '../../pages/program.mjs'
import './style.css'

/** Shows a program beside the headline of the home page. */
const Layout = () =>
  h(theme.Layout, null, {
    'home-hero-image': () => h('pre', { class: 'hero-program' }, h('code', program)),
  })

export default { extends: theme, Layout }
