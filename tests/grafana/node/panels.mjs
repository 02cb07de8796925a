import './browser_globals.mjs';

import { dataFrameToJSON } from '@grafana/data';
import { text } from 'node:stream/consumers';

import { registerTransformations } from './field_options.mjs';
import { panelData, prepareLinks } from './panel_data.mjs';
import { queryPanel } from './prometheus_frames.mjs';
import { shownBy } from './shown.mjs';
import { timeRange } from './time_range.mjs';
import { Variables } from './variables.mjs';

/** Panels that ask no Prometheus: what they show is not data. */
const WITHOUT_QUERIES = new Set(['row', 'text', 'alertlist', 'dashlist', 'annolist', 'news']);

const AT_A_TIME = 6;

/** Every panel, those in collapsed rows too. */
function allPanels(dashboard) {
  return (dashboard.panels ?? []).flatMap((panel) => [panel, ...(panel.panels ?? [])]);
}

async function shownPanel(panel, settings) {
  const said = { id: panel.id, title: settings.variables.text(panel.title ?? ''), type: panel.type };
  if (WITHOUT_QUERIES.has(panel.type)) {
    return said;
  }
  try {
    const frames = await queryPanel(panel, settings);
    const data = await panelData(panel, frames, settings.variables);
    const raw = settings.withFrames ? { frames: frames.map((frame) => dataFrameToJSON(frame)) } : {};
    return { ...said, ...shownBy(panel, data, settings.variables), ...raw };
  } catch (error) {
    return { ...said, error: error.message };
  }
}

/** The events of an annotation whose values are their times in ms: Grafana draws samples of one time as one event. */
function marks(definition, frames) {
  return frames.flatMap(({ fields: [, field] }) =>
    [...new Set(field?.values)].map((time) => ({
      title: definition.titleFormat.replace(/{{(\w+)}}/g, (_, label) => field.labels[label] ?? ''),
      time,
    })),
  );
}

async function annotation(definition, settings) {
  const panel = { targets: [{ expr: definition.expr ?? definition.target?.expr, refId: 'A', range: true, interval: definition.step }] };
  try {
    const frames = await queryPanel(panel, settings);
    const times = frames.flatMap((frame) => frame.fields.filter(({ type }) => type === 'time').map(({ values }) => values.length));
    const points = times.reduce((sum, each) => sum + each, 0);
    return { name: definition.name, points, ...(definition.useValueForTime && { marks: marks(definition, frames) }) };
  } catch (error) {
    return { name: definition.name, error: error.message };
  }
}

/** Does something with each item, some at a time as a browser does, and returns the results in the items' order. */
async function inTurns(items, work) {
  const results = [];
  const entries = items.entries();
  const worker = async () => {
    for (const [place, item] of entries) {
      results[place] = await work(item);
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return results;
}

async function main() {
  const { dashboards, prometheus, scrapeInterval, from, to, rangesTo = to, withFrames } = JSON.parse(await text(process.stdin));
  registerTransformations();
  const range = timeRange(from, to);
  const shown = [];
  for (const { dashboard, variables: given } of dashboards) {
    const variables = new Variables(dashboard, given, range);
    prepareLinks(variables);
    const settings = { url: prometheus, range, rangesTo, variables, scrapeInterval, withFrames };
    const panels = await inTurns(allPanels(dashboard), (panel) => shownPanel(panel, settings));
    const annotations = (dashboard.annotations?.list ?? []).filter(({ builtIn }) => !builtIn);
    const asked = await Promise.all(annotations.map((each) => annotation(each, settings)));
    shown.push({ uid: dashboard.uid, panels, annotations: asked });
  }
  process.stdout.write(JSON.stringify(shown));
}

await main();
