import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import { createTheme, dataFrameFromJSON, getFieldDisplayValues, ThemeContext } from '@grafana/data';
import { BigValue, GlobalStyles, Table, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { registerTransformations } from '../field_options.mjs';
import { panelData, prepareLinks } from '../panel_data.mjs';
import { timeRange } from '../time_range.mjs';
import { Variables } from '../variables.mjs';
import { Timeline } from './timeline.jsx';

const COLUMN = 1440 / 24;
const ROW = 38;
const HEADER = 30;

function hasRows(data) {
  return data.some((frame) => frame.length > 0);
}

/** What Grafana writes into a panel whose queries answer nothing. */
function Nothing({ panel }) {
  return <div style={{ padding: 24, textAlign: 'center', opacity: 0.8 }}>{panel.fieldConfig.defaults.noValue || 'No data'}</div>;
}

/** What is drawn below a panel's title. */
function Content({ panel, data, width, height, range, theme, variables }) {
  if (['table', 'timeseries', 'state-timeline'].includes(panel.type) && !hasRows(data)) {
    return <Nothing panel={panel} />;
  }
  if (panel.type === 'text') {
    return <div style={{ whiteSpace: 'pre-wrap' }}>{variables.text(panel.options.content)}</div>;
  }
  if (panel.type === 'state-timeline') {
    return <Timeline data={data} width={width} height={height} range={range} theme={theme} />;
  }
  if (panel.type === 'table') {
    const sortBy = panel.options?.sortBy;
    return <Table data={data[0]} width={width} height={height} initialSortBy={sortBy} cellHeight={panel.options?.cellHeight} />;
  }
  if (panel.type === 'stat') {
    const values = getFieldDisplayValues({
      fieldConfig: panel.fieldConfig,
      reduceOptions: panel.options.reduceOptions,
      replaceVariables: (text, scoped, format) => variables.text(text, scoped, format),
      theme,
      data,
    });
    const each = width / Math.max(values.length, 1);
    return (
      <div style={{ display: 'flex' }}>
        {values.map(({ display }, place) => (
          <BigValue
            key={place}
            theme={theme}
            width={each}
            height={height}
            colorMode={panel.options.colorMode}
            graphMode="none"
            justifyMode={panel.options.justifyMode ?? 'auto'}
            text={panel.options.text}
            textMode={panel.options.textMode === 'auto' && values.length === 1 ? 'value' : panel.options.textMode}
            value={display}
            count={values.length}
          />
        ))}
      </div>
    );
  }
  if (panel.type === 'timeseries') {
    return (
      <TimeSeries
        frames={data.filter((frame) => frame.length > 0)}
        structureRev={1}
        width={width}
        height={height}
        timeRange={range}
        timeZone="utc"
        legend={{ calcs: [], ...panel.options?.legend }}
        options={{}}
      />
    );
  }
  return <div style={{ opacity: 0.6 }}>({panel.type}: not drawn here)</div>;
}

function Panel(props) {
  const { panel, theme } = props;
  const { x, y, w, h } = panel.gridPos;
  const [width, height] = [w * COLUMN - 8, h * ROW - 8];
  const box = {
    position: 'absolute', left: x * COLUMN, top: y * ROW, width, height, overflow: 'hidden', boxSizing: 'border-box',
    border: `1px solid ${theme.colors.border.weak}`, background: theme.colors.background.primary,
  };
  if (panel.type === 'row') {
    return <div style={{ ...box, border: 'none', padding: 4, fontWeight: 500 }}>{props.title}</div>;
  }
  return (
    <div style={box}>
      <div style={{ padding: '4px 8px', height: HEADER, fontWeight: 500 }}>{props.title}</div>
      <div style={{ padding: '0 8px' }}>
        {props.error ?? <Content {...props} width={width - 18} height={height - HEADER - 10} />}
      </div>
    </div>
  );
}

/** Draws the page, and returns how many graphs it has. */
async function draw() {
  const asked = new URLSearchParams(location.search);
  const mode = asked.get('theme') ?? 'dark';
  const answer = await fetch(asked.get('question'));
  const { dashboard, variables: given, shown, from, to } = await answer.json();
  const theme = createTheme({ colors: { mode } });
  // A graph's axes are painted once: the font must be there before.
  await Promise.all(['400 12px Inter', '500 14px Inter'].map((font) => document.fonts.load(font)));
  const range = timeRange(from, to);
  const variables = new Variables(dashboard, given, range);
  prepareLinks(variables);
  registerTransformations();
  const panels = (dashboard.panels ?? []).flatMap((panel) => [panel, ...(panel.panels ?? [])]);
  const drawn = [];
  let graphs = 0;
  for (const panel of panels) {
    const said = shown.find(({ id }) => id === panel.id) ?? {};
    const data = said.frames ? await panelData(panel, said.frames.map(dataFrameFromJSON), variables, mode) : [];
    const title = variables.text(panel.title ?? '');
    graphs += panel.type === 'timeseries' && hasRows(data);
    drawn.push(<Panel key={panel.id} {...{ panel, data, range, theme, variables, title, error: said.error }} />);
  }
  const height = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * ROW;
  const page = { position: 'relative', width: 24 * COLUMN, height, color: theme.colors.text.primary, background: theme.colors.background.canvas };
  createRoot(document.getElementById('root')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div id="page" style={page}>
        {drawn}
      </div>
    </ThemeContext.Provider>,
  );
  return graphs;
}

/** Whether so many graphs have been painted: uPlot does so some time after each is there. */
function isPainted(graphs) {
  const canvases = [...document.querySelectorAll('canvas')];
  return canvases.length >= graphs && canvases.every((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return data.some((value, place) => place % 4 === 3 && value > 0);
  });
}

async function painted(graphs) {
  const pause = () => new Promise((resolve) => setTimeout(resolve, 500)); // a frame may never come in headless Chromium
  do {
    await pause();
  } while (document.getElementById('page') === null || !isPainted(graphs));
  await pause();
}

// What the console says is what pictures.py looks for.
draw()
  .then(painted)
  .then(() => console.log('all of it is painted'))
  .catch((error) => console.error(`it could not be drawn: ${error.stack}`));
