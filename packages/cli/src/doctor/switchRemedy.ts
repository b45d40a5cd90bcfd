/** The remedy for a switch that is off. `forcedOff`: switches that the environment turns off, whatever the store says. */
export const switchRemedy = (name: string, forcedOff: ReadonlyArray<string>): string =>
  forcedOff.includes(name)
    ? `unset KILN_SWITCH_${name.toUpperCase()} where kiln is started, and restart it; then kiln switch on ${name}`
    : `kiln switch on ${name}`
