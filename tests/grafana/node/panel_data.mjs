import { applyFieldOverrides, createTheme, locationUtil, toDataFrame, transformDataFrame } from '@grafana/data';
import { firstValueFrom } from 'rxjs';

import { optionsRegistry, withLowestStep } from './field_options.mjs';

export function prepareLinks(variables) {
  locationUtil.initialize({
    config: { appSubUrl: '' },
    getVariablesUrlParams: () => ({}),
    getTimeRangeForUrl: () => ({ from: variables.range.from.valueOf(), to: variables.range.to.valueOf() }),
  });
}

/** What a panel draws: its frames after its transformations and with its field config applied, as Grafana does both. */
export async function panelData(panel, frames, variables, themeMode = 'dark') {
  const context = { interpolate: (text) => variables.text(text) };
  const transformations = (panel.transformations ?? []).filter((each) => !each.disabled);
  const transformed = await firstValueFrom(transformDataFrame(transformations, frames.map(toDataFrame), context));
  const fieldConfig = withLowestStep(panel.fieldConfig);
  return applyFieldOverrides({
    data: transformed,
    fieldConfig,
    fieldConfigRegistry: optionsRegistry(fieldConfig),
    replaceVariables: (text, scoped, format) => variables.text(text, scoped, format),
    theme: createTheme({ colors: { mode: themeMode } }),
    timeZone: 'utc',
  });
}
