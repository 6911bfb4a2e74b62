package main

import "testing"

func TestRead(t *testing.T) {
	var f figures
	f.read([]byte("goos: linux\nBenchmarkDecide/live=100-2   150   0 ns/op   82.5 ours-ns   1.21 x-allow\nPASS\n"))
	f.read([]byte("BenchmarkDecide/live=100-2   150   0 ns/op   80 ours-ns   1.25 x-allow\n    processes_test.go:7: 4 processes\n"))
	const want = `Decide/live=100 ns/op                                                             0            0
Decide/live=100 ours-ns                                                          80         82.5
Decide/live=100 x-allow                                                        1.21         1.25
4 processes
`
	if got := f.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
