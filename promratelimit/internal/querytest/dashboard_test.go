package querytest

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const (
	dashboardFile = "../../dashboard/ratelimit.json"
	rulesFile     = "../../alerts/ratelimit.yml"
	rulesTestFile = "../../alerts/ratelimit_test.yml"
)

// dashboard is what the tests need of Grafana's format.
type dashboard struct {
	Inputs []struct {
		Name, Type string
		PluginID   string `json:"pluginId"`
	} `json:"__inputs"`
	Title, UID string
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type string
	Query      json.RawMessage
	Definition string
	AllValue   string
	Current    struct{ Value any }
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults fieldDefaults }
	Targets                  []target
}

type fieldDefaults struct {
	Unit   string
	Custom struct {
		Stacking          struct{ Mode string }
		ScaleDistribution struct{ Type string }
	}
	Thresholds struct {
		Steps []struct {
			Value *float64
			Color string
		}
	}
	Mappings []struct {
		Options map[string]struct{ Text string }
	}
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
	Instant                   bool
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// concrete returns a query as Grafana sends it, with all values of each variable.
func concrete(query string) string {
	return strings.NewReplacer(
		"$__rate_interval", "20s", "$__range", "5m", "$job", ".*", "$limiter", ".*", "$model", ".*",
	).Replace(query)
}

func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" {
		t.Error("no title or uid")
	}
	if len(d.Inputs) != 1 || d.Inputs[0].Type != "datasource" || d.Inputs[0].PluginID != "prometheus" {
		t.Fatalf("inputs %+v", d.Inputs)
	}
	variables := make(map[string]variable)
	for _, v := range d.Templating.List {
		variables[v.Name] = v
	}
	if v := variables["datasource"]; v.Type != "datasource" || v.Current.Value != "${"+d.Inputs[0].Name+"}" {
		t.Errorf("variable datasource: %+v", v)
	}
	for _, name := range []string{"job", "limiter", "model"} {
		if v := variables[name]; v.Type != "query" || v.AllValue != ".*" {
			t.Errorf("variable %s: %+v", name, v)
		}
	}
	ids, place := make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %q: id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := place[at]; taken || at[0] >= 24 {
					t.Fatalf("panel %q lies on %q or outside", p.Title, other)
				}
				place[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %q has no description, query or unit", p.Title)
		}
		refs := make(map[string]bool)
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" || refs[q.RefID] || q.RefID == "" {
				t.Errorf("panel %q, query %q: datasource %+v", p.Title, q.RefID, q.Datasource)
			}
			refs[q.RefID] = true
			if rest := concrete(q.Expr); strings.Contains(rest, "$") {
				t.Errorf("panel %q uses an unknown variable: %s", p.Title, rest)
			}
		}
	}
}
