import { FieldType, formattedValueToString, getFieldDisplayName, getFieldDisplayValues, createTheme } from '@grafana/data';

/** The links of a cell, as the address that a click goes to. */
function linksOf(field, rowIndex) {
  return field.config.links?.length && field.getLinks ? field.getLinks({ valueRowIndex: rowIndex }).map(({ href }) => href) : [];
}

/** A cell's colour is seen only where its cell type says so. */
function isColored(field) {
  return ['color-background', 'color-text', 'color-background-solid'].includes(field.config.custom?.cellOptions?.type);
}

function cell(field, rowIndex) {
  const shown = field.display(field.values[rowIndex]);
  const links = linksOf(field, rowIndex);
  return {
    text: formattedValueToString(shown),
    ...(isColored(field) && { color: shown.color }),
    ...(links.length > 0 && { links }),
  };
}

/** How Grafana's table orders two numbers or two texts; what is missing is less than any number. */
function compared(one, two, isNumber) {
  if (isNumber) {
    const [a, b] = [one, two].map((each) => (each === null || each === undefined || Number.isNaN(each) ? -Infinity : each));
    return a === b ? 0 : a < b ? -1 : 1;
  }
  return String(one ?? '').localeCompare(String(two ?? ''), undefined, { numeric: true, sensitivity: 'base' });
}

function sortedRows(frame, fields, sortBy) {
  const rows = [...Array(frame.length).keys()];
  const keys = (sortBy ?? []).map(({ displayName, desc }) => {
    const field = fields.find((each) => getFieldDisplayName(each, frame) === displayName);
    if (field === undefined) {
      throw new Error(`it is sorted by ${displayName}, which is no column of it`);
    }
    return { field, sign: desc ? -1 : 1, isNumber: field.type !== FieldType.string };
  });
  return rows.sort((one, two) => {
    for (const { field, sign, isNumber } of keys) {
      const order = sign * compared(field.values[one], field.values[two], isNumber);
      if (order !== 0) {
        return order;
      }
    }
    return one - two;
  });
}

function tableOf(panel, data) {
  const frame = data[panel.options?.frameIndex ?? 0];
  if (frame === undefined) {
    return { columns: [], rows: [], frames: 0 };
  }
  const fields = frame.fields.filter((field) => !field.config.custom?.hidden);
  return {
    columns: fields.map((field) => getFieldDisplayName(field, frame, data)),
    rows: sortedRows(frame, frame.fields, panel.options?.sortBy).map((row) => fields.map((field) => cell(field, row))),
    frames: data.length,
  };
}

function valuesOf(panel, data, variables) {
  const values = getFieldDisplayValues({
    fieldConfig: panel.fieldConfig ?? { defaults: {}, overrides: [] },
    reduceOptions: panel.options?.reduceOptions ?? { calcs: ['lastNotNull'] },
    replaceVariables: (text, scoped, format) => variables.text(text, scoped, format),
    theme: createTheme(),
    data,
  });
  return values.map(({ display, hasLinks, getLinks }) => ({
    title: display.title ?? '',
    text: formattedValueToString(display),
    number: Number.isFinite(display.numeric) ? display.numeric : null,
    color: display.color,
    ...(hasLinks && { links: getLinks({}).map(({ href }) => href) }),
  }));
}

/** Each series with its name, how many points of it have a value, the texts of its states in order, and its newest. */
function seriesOf(data) {
  return data.flatMap((frame) =>
    frame.fields
      .filter((field) => field.type !== FieldType.time)
      .map((field) => {
        const present = field.values.filter((value) => value !== null && value !== undefined && !Number.isNaN(value));
        const texts = present.map((value) => formattedValueToString(field.display(value)));
        return {
          name: getFieldDisplayName(field, frame, data),
          points: present.length,
          last: texts.at(-1) ?? null,
          different: [...new Set(texts)].slice(0, 20),
          hidden: field.config.custom?.hideFrom?.viz ?? false,
        };
      }),
  );
}

/** What a person sees of a panel, by its type. */
export function shownBy(panel, data, variables) {
  switch (panel.type) {
    case 'table':
      return { table: tableOf(panel, data) };
    case 'stat':
    case 'gauge':
    case 'bargauge':
      return { values: valuesOf(panel, data, variables) };
    default:
      return { series: seriesOf(data) };
  }
}
