package querytest

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// picture makes TestPicture run the example for some minutes and draw what Prometheus answers to
// the dashboard's queries:
//
//	go test -run TestPicture -picture ../../../docs/images/dashboard.svg
var picture = flag.String("picture", "", "`file` to draw the dashboard to, in some minutes")

const (
	pictureTime = 3 * time.Minute
	picturePart = 2 * time.Second // of a line
	maxPicture  = 200 << 10       // bytes
)

func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Skip("no -picture")
	}
	address, end := startExample(t)
	defer end()
	s := startPrometheus(t, address, "exemplar-storage")
	time.Sleep(pictureTime)
	svg := draw(chartsOf(t, readDashboard(t), s.lines), pictureTime)
	if len(svg) > maxPicture {
		t.Errorf("the picture has %d bytes", len(svg))
	}
	if err := os.WriteFile(*picture, []byte(svg), 0o644); err != nil {
		t.Error(err)
	}
}

// chartsOf returns the panels of the dashboard with their data.
func chartsOf(t *testing.T, d dashboard, data func(q target) ([]line, error)) (charts []chart) {
	t.Helper()
	for _, p := range d.Panels {
		custom := p.FieldConfig.Defaults.Custom
		c := chart{
			title: p.Title, unit: p.FieldConfig.Defaults.Unit, kind: p.Type,
			x: p.GridPos.X, y: p.GridPos.Y, w: p.GridPos.W, h: p.GridPos.H,
			stacked: custom.Stacking.Mode == "normal", log: custom.ScaleDistribution.Type == "log",
		}
		for _, q := range p.Targets {
			lines, err := data(q)
			if err != nil {
				t.Fatalf("panel %s: %v", p.Title, err)
			}
			c.lines = append(c.lines, lines...)
		}
		if c.kind == "stat" && len(c.lines) > 0 {
			value := last(c.lines[0].values)
			for _, s := range p.FieldConfig.Defaults.Thresholds.Steps {
				if s.Value == nil || value >= *s.Value {
					c.colour = s.Color
				}
			}
			for _, m := range p.FieldConfig.Defaults.Mappings {
				c.text = m.Options[strconv.FormatFloat(value, 'g', -1, 64)].Text
			}
		}
		charts = append(charts, c)
	}
	return charts
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// lines asks for the data of a query, over the time of the picture.
func (s *server) lines(q target) (lines []line, err error) {
	now := time.Now()
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	err = s.get("query_range", url.Values{
		"query": {concrete(q.Expr)}, "step": {fmt.Sprint(picturePart.Seconds())},
		"start": {fmt.Sprint(now.Add(-pictureTime).Unix())}, "end": {fmt.Sprint(now.Unix())},
	}, &data)
	for _, r := range data.Result {
		l := line{values: make([]float64, pictureTime/picturePart+1)}
		l.name = legendLabel.ReplaceAllStringFunc(q.LegendFormat, func(name string) string {
			return r.Metric[strings.Trim(name, "{}")]
		})
		for i := range l.values {
			l.values[i] = math.NaN()
		}
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if i := int((at - float64(now.Add(-pictureTime).Unix())) / picturePart.Seconds()); err == nil && i >= 0 && i < len(l.values) {
				l.values[i] = value
			}
		}
		lines = append(lines, l)
	}
	return lines, err
}

// TestDraw draws the dashboard with made-up data: the SVG is well-formed, and has each panel and
// its lines.
func TestDraw(t *testing.T) {
	calls := 0
	charts := chartsOf(t, readDashboard(t), func(q target) ([]line, error) {
		calls++
		return []line{
			{fmt.Sprintf("a<%d>", calls), []float64{math.NaN(), 1, 2, math.NaN(), 3000, 4000}},
			{fmt.Sprintf("b%d", calls), []float64{0.001, 0.002, 0, 0, 0.5, 1}},
		}, nil
	})
	charts = append(charts, chart{kind: "timeseries", title: "empty", y: 80, w: 12, h: 8})
	svg := draw(charts, time.Minute)
	decoder := xml.NewDecoder(strings.NewReader(svg))
	shapes, texts := make(map[string]int), ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			shapes[token.Name.Local]++
		case xml.CharData:
			texts += string(token)
		}
	}
	for _, c := range charts {
		if !strings.Contains(texts, c.title) {
			t.Errorf("no title %q", c.title)
		}
		for _, l := range c.lines {
			if c.kind == "timeseries" && len(c.lines) <= 2*legendLines && !strings.Contains(texts, l.name+": ") {
				t.Errorf("%s: no legend %q", c.title, l.name)
			}
		}
	}
	if shapes["polygon"] == 0 || shapes["path"] == 0 || !strings.Contains(texts, "no data") || strings.Contains(svg, "NaN") {
		t.Errorf("shapes %v", shapes)
	}
}

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "s", "0 s"}, {0.005, "s", "5 ms"}, {30, "s", "30 s"}, {300, "s", "5.0 min"}, {90 * 86400, "s", "90 days"},
		{0.4567, "percentunit", "45.7 %"}, {1.5, "reqps", "1.5/s"}, {1234567, "short", "1.23 M"}, {60_000, "short", "60 k"}, {7, "short", "7"},
	} {
		if got := inUnit(test.v, test.unit); got != test.want {
			t.Errorf("%v %s: %q, want %q", test.v, test.unit, got, test.want)
		}
	}
}

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		c    chart
		top  float64
		high float64
	}{
		{chart{}, 0, 1}, {chart{}, 1, 1}, {chart{}, 1.2, 1.5}, {chart{}, 7, 8}, {chart{}, 34, 40}, {chart{log: true}, 200, 1000},
		{chart{stacked: true}, 3, 6},
	} {
		lines := []line{{values: []float64{test.top}}}
		if test.c.stacked {
			lines = append(lines, lines[0])
		}
		a := newAxis(lines, &test.c)
		if math.Abs(a.high-test.high) > 1e-9 || len(a.ticks) < 2 || a.share(a.high) != 1 || a.share(a.low) != 0 {
			t.Errorf("%+v to %v: %+v", test.c, test.top, a)
		}
	}
}
