package querytest

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/instruments"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"
)

// query is a query of the dashboard or of the rules.
type query struct {
	where string
	expr  string
	texts []string // legends and annotations, which name labels of the result
}

// rules is the format of Prometheus' rule files.
type rules struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var r rules
	if err := yaml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

func dashboardQueries(t *testing.T) (all []query) {
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all = append(all, query{"panel " + p.Title, concrete(q.Expr), []string{q.LegendFormat}})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Definition)
		if parts == nil {
			t.Fatalf("variable %s: %s", v.Name, v.Definition)
		}
		all = append(all, query{"variable " + v.Name, "count by (" + parts[2] + ") (" + concrete(parts[1]) + ")", nil})
	}
	return all
}

func alertQueries(t *testing.T) (all []query) {
	for _, r := range readRules(t) {
		all = append(all, query{"alert " + r.Alert, r.Expr, []string{r.Annotations["summary"], r.Annotations["description"]}})
	}
	return all
}

// TestQueries keeps the queries to the metrics and labels that promratelimit exports.
func TestQueries(t *testing.T) {
	used := make(map[string]bool)
	for _, q := range slices.Concat(dashboardQueries(t), alertQueries(t)) {
		for _, wrong := range check(q, used) {
			t.Errorf("%s: %s", q.where, wrong)
		}
	}
	for _, i := range instruments.List {
		if !used[i.Prometheus] {
			t.Errorf("no query has %s", i.Prometheus)
		}
	}
}

// The test itself finds what is wrong.
func TestCheck(t *testing.T) {
	for _, test := range []struct{ expr, text, want string }{
		{`sum by (model) (rate(ratelimit_requests_total{code="ok"}[5m]))`, "{{model}}", ""},
		{`sum(`, "", "parse error"},
		{`sum(ratelimit_requests)`, "", "no metric ratelimit_requests"},
		{`ratelimit_queued_requests{code="ok"}`, "", "no label code"},
		{`sum by (code) (ratelimit_queued_requests)`, "", "no label code"},
		{`ratelimit_queued_requests_bucket`, "", "no metric"},
		{`sum by (le) (rate(ratelimit_lease_duration_seconds_bucket{le="1"}[5m]))`, "", ""},
		{`ratelimit_lease_duration_seconds_sum{le="1"}`, "", "no label le"},
		{`ratelimit_queued_requests unless on (cause) ratelimit_active_leases`, "", "no label cause"},
		{`sum by (model) (ratelimit_queued_requests)`, "{{ provider }}", "no label provider"},
		{`sum by (model) (ratelimit_queued_requests)`, "{{ $labels.provider }} {{ $value }}", "no label provider"},
		{`sum by (model) (ratelimit_queued_requests)`, "{{ if $labels.pool }}x{{ else }}{{ end }}", "no label pool"},
		{`sum by (model) (ratelimit_queued_requests)`, "{{ if $labels.model }}x{{ else }}{{ end }}", ""},
		{`sum by (model) (ratelimit_pool_queued_requests)`, "", "no label model"},
		{`rate(ratelimit_queued_requests[5m])`, "", "is no counter"},
		{`rate(ratelimit_requests_total[5m]) > ratelimit_requests_total`, "", "without a rate"},
	} {
		got := fmt.Sprint(check(query{expr: test.expr, texts: []string{test.text}}, make(map[string]bool)))
		if test.want == "" && got != "[]" || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %s, want %q", test.expr, got, test.want)
		}
	}
}

// TestAlerts keeps the alerts complete: each has a severity, says what to do, and has a test.
func TestAlerts(t *testing.T) {
	tests, err := os.ReadFile(rulesTestFile)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, r := range readRules(t) {
		if names[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		names[r.Alert] = true
		if s := r.Labels["severity"]; s != "page" && s != "warning" && s != "info" {
			t.Errorf("%s has severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || len(r.Annotations["description"]) < 100 {
			t.Errorf("%s does not say what to do", r.Alert)
		}
		if !strings.Contains(string(tests), `{alertname="`+r.Alert+`"`) {
			t.Errorf("%s has no test in which it fires", r.Alert)
		}
	}
}

var suffixes = []string{"", "_bucket", "_sum", "_count"}

// metric returns the instrument that a name in a query belongs to, and its labels.
func metric(name string) (i *instruments.Instrument, labels []string) {
	for id := range instruments.List {
		i := &instruments.List[id]
		suffix, found := strings.CutPrefix(name, i.Prometheus)
		if !found || !slices.Contains(suffixes, suffix) || suffix != "" && i.Kind != instruments.Histogram {
			continue
		}
		labels := []string{"job", "instance", "limiter"}
		if suffix == "_bucket" {
			labels = append(labels, "le")
		}
		if i.PerModel {
			labels = append(labels, instruments.Model.Label, instruments.Provider.Label)
		}
		for _, a := range i.Attributes {
			labels = append(labels, a.Label)
		}
		return i, labels
	}
	return nil, nil
}

var template = regexp.MustCompile(`{{\s*(?:if\s+)?(?:\$labels\.)?([a-z_]+)\s*}}`)

// check returns what is wrong with a query, and notes the metrics that it uses.
func check(q query, used map[string]bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.expr)
	if err != nil {
		return []string{err.Error()}
	}
	var result []string // labels that the query groups by
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			result = append(result, n.Grouping...)
			for _, l := range without(n.Grouping, labelsUnder(n.Expr)) {
				say("no label %s under %s", l, n)
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				for _, l := range without(n.VectorMatching.MatchingLabels, labelsUnder(n)) {
					say("no label %s under %s", l, n)
				}
			}
		case *parser.VectorSelector:
			i, labels := metric(n.Name)
			if i == nil {
				say("no metric %s", n.Name)
				return nil
			}
			used[i.Prometheus] = true
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" && !slices.Contains(labels, m.Name) {
					say("no label %s of %s", m.Name, n.Name)
				}
			}
			cumulative := i.Kind == instruments.Counter || i.Kind == instruments.Histogram
			switch ranged := slices.ContainsFunc(path, isMatrix); {
			case ranged && !cumulative:
				say("%s is no counter", n.Name)
			case !ranged && i.Kind == instruments.Histogram:
				say("%s without a rate", n.Name)
			case !ranged && cumulative && !comparedWithItself(path):
				say("%s without a rate", n.Name)
			}
		}
		return nil
	})
	for _, text := range q.texts {
		for _, name := range template.FindAllStringSubmatch(text, -1) {
			if word := name[1]; word != "else" && word != "end" && !slices.Contains(result, word) {
				say("no label %s in the result, for %q", word, text)
			}
		}
	}
	return wrong
}

func isMatrix(n parser.Node) bool { _, is := n.(*parser.MatrixSelector); return is }

// comparedWithItself reports whether a selector belongs to "a > 0 unless a offset …", which finds
// new counters, the one good use of the value of a counter.
func comparedWithItself(path []parser.Node) bool {
	return slices.ContainsFunc(path, func(n parser.Node) bool {
		b, is := n.(*parser.BinaryExpr)
		return is && b.Op == parser.LUNLESS
	})
}

func without(labels, known []string) (unknown []string) {
	for _, l := range labels {
		if !slices.Contains(known, l) {
			unknown = append(unknown, l)
		}
	}
	return unknown
}

// labelsUnder returns the labels of the metrics in an expression.
func labelsUnder(expr parser.Node) (labels []string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, is := node.(*parser.VectorSelector); is {
			_, of := metric(s.Name)
			labels = append(labels, of...)
		}
		return nil
	})
	return labels
}
