package main

import (
	"os"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// The document shows what the program draws.
func TestFigureIsCurrent(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("takes seconds, on one goroutine")
	}
	want, err := figure()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../../../docs/adaptive.svg"); err != nil || string(got) != want {
		t.Errorf("docs/adaptive.svg is not what the program draws, %v: go run ./internal/test/adaptivesim/figure > docs/adaptive.svg", err)
	}
}

func TestReadSeconds(t *testing.T) {
	if _, err := readSeconds("sent,answered,refused,down,level\n1,2,x,4,5\n"); err == nil {
		t.Error("no error for a count that is none")
	}
	if _, err := readSeconds("a,b\n1\n"); err == nil {
		t.Error("no error for a short line")
	}
	got, err := readSeconds("sent,answered,refused,down,level\n10,2,3,5,20\n")
	if err != nil || len(got) != 1 || got[0].Sent != 10 || got[0].Answered != 2 || got[0].Refused != 3 || got[0].Down != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}
