import { FieldType, createDataFrame } from '@grafana/data';
import { transformV2 } from 'grafana-result-transformer';

import { intervals } from './time_range.mjs';

const VALUE = 'Value';

/** A sample's number: Prometheus writes it as text, with +Inf and -Inf in words that JavaScript reads otherwise. */
function number(text) {
  return { '+Inf': Infinity, '-Inf': -Infinity }[text] ?? Number(text);
}

async function asked(url, path, question) {
  const answer = await fetch(`${url}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams(question) });
  const body = await answer.json();
  if (body.status !== 'success') {
    throw new Error(`${body.errorType}: ${body.error} in ${question.query}`);
  }
  return body.data;
}

/** The series of an answer as [labels, [[seconds, text], ...]]; a scalar is a series without labels. */
function seriesOf({ resultType, result }) {
  switch (resultType) {
    case 'matrix':
      return result.map(({ metric, values }) => [metric, values]);
    case 'vector':
      return result.map(({ metric, value }) => [metric, [value]]);
    case 'scalar':
      return [[{}, [result]]];
    default:
      throw new Error(`no panel shows an answer of type ${resultType}`);
  }
}

/** A series' name where the query gives none: its metric with its labels. */
function nameOf(labels) {
  const { __name__: metric = '', ...others } = labels;
  const pairs = Object.entries(others).sort(([one], [two]) => (one < two ? -1 : 1));
  return pairs.length === 0 ? metric : `${metric}{${pairs.map(([key, value]) => `${key}="${value}"`).join(', ')}}`;
}

function legend(target, expression, labels) {
  const format = target.legendFormat ?? '';
  if (format === '__auto') {
    return Object.keys(labels).length > 0 ? '' : expression;
  }
  const name = format === '' ? nameOf(labels) : format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => labels[label] ?? '');
  return name === '' || name === '{}' ? expression : name;
}

/**
 * One frame a series, as the data source's backend makes them: a time and a value field that carries the labels.
 *
 * An answer without a series is one frame without fields.
 * https://grafana.com/developers/dataplane/timeseries#time-series-multi-format-timeseriesmulti and
 * .../numeric#numeric-multi-format-numericmulti are their shapes.
 */
function backendFrames(data, target, expression, step) {
  const meta = {
    type: data.resultType === 'matrix' ? 'timeseries-multi' : 'numeric-multi',
    typeVersion: [0, 1],
    custom: { resultType: data.resultType },
    executedQueryString: `Expr: ${expression}`,
  };
  const series = seriesOf(data);
  if (series.length === 0) {
    return [createDataFrame({ refId: target.refId, meta, fields: [] })];
  }
  return series.map(([labels, samples]) => {
    const name = legend(target, expression, labels);
    return createDataFrame({
      refId: target.refId,
      name,
      meta,
      fields: [
        {
          name: 'Time',
          type: FieldType.time,
          config: { interval: step * 1000 },
          values: samples.map(([time]) => time * 1000),
        },
        {
          name: labels.__name__ ?? VALUE,
          type: FieldType.number,
          labels,
          config: name === '' ? {} : { displayNameFromDS: name },
          values: samples.map(([, text]) => number(text)),
        },
      ],
    });
  });
}

/**
 * Runs a panel's queries and returns the frames that Grafana's Prometheus data source hands to the panel.
 *
 * A range query's times are multiples of its step, as Grafana asks them; a series has a point only where it was there.
 */
export async function queryPanel(panel, { url, range, rangesTo, variables, scrapeInterval }) {
  const targets = (panel.targets ?? []).filter((target) => !target.hide);
  const frames = [];
  for (const target of targets) {
    const { step, variables: own } = intervals(panel, target, range, scrapeInterval);
    const expression = variables.query(target.expr, own);
    if (target.instant) {
      const data = await asked(url, 'query', { query: expression, time: range.to.valueOf() / 1000 });
      frames.push(...backendFrames(data, target, expression, step));
    }
    if (target.range || !target.instant) {
      const [start, end] = [range.from.valueOf(), rangesTo].map((each) => Math.floor(each / 1000 / step) * step);
      const data = await asked(url, 'query_range', { query: expression, start, end, step });
      frames.push(...backendFrames(data, target, expression, step));
    }
  }
  return transformV2({ data: frames }, { targets }, {}).data;
}
