package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// manifest has the fields of a Job or a CronJob that the tests read.
type manifest struct {
	Kind string  `yaml:"kind"`
	Spec jobSpec `yaml:"spec"`
}

// jobSpec is the spec of a Job. That of a CronJob has one in jobTemplate.
type jobSpec struct {
	ConcurrencyPolicy string `yaml:"concurrencyPolicy"`
	JobTemplate       *struct {
		Spec jobSpec `yaml:"spec"`
	} `yaml:"jobTemplate"`

	BackoffLimit *int `yaml:"backoffLimit"`
	Template     struct {
		Spec struct {
			SecurityContext map[string]any `yaml:"securityContext"`
			Containers      []container    `yaml:"containers"`
		} `yaml:"spec"`
	} `yaml:"template"`
}

type container struct {
	Image     string         `yaml:"image"`
	Command   []string       `yaml:"command"`
	Args      []string       `yaml:"args"`
	Env       []variable     `yaml:"env"`
	Resources map[string]any `yaml:"resources"`
	Security  map[string]any `yaml:"securityContext"`
}

type variable struct {
	Name      string `yaml:"name"`
	Value     string `yaml:"value"`
	ValueFrom struct {
		SecretKeyRef map[string]string `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

// TestManifests runs the command line of each Kubernetes manifest: the Job migrates an empty
// database, and the CronJob then finds nothing that needs attention.
func TestManifests(t *testing.T) {
	t.Parallel()

	db := pgtest.NewEmpty(t)
	docker := dockerfile(t)
	for _, want := range []struct{ file, kind, says string }{
		{"migrate.yaml", "Job", "applied 00001_tool_dedup.sql"},
		{"attention.yaml", "CronJob", "Nothing needs attention."},
	} {
		text, err := os.ReadFile(checkout + "/deploy/kubernetes/" + want.file)
		require.NoError(t, err)
		var m manifest
		require.NoError(t, yaml.Unmarshal(text, &m), want.file)
		require.Equal(t, want.kind, m.Kind)
		job := m.Spec
		if job.JobTemplate != nil {
			require.Equal(t, "Forbid", job.ConcurrencyPolicy)
			job = job.JobTemplate.Spec
		}
		require.NotNil(t, job.BackoffLimit)
		pod := job.Template.Spec
		require.Equal(t, true, pod.SecurityContext["runAsNonRoot"])
		require.Regexp(t, `(?m)^USER `+fmt.Sprint(pod.SecurityContext["runAsUser"], ":", pod.SecurityContext["runAsGroup"])+`$`, docker)

		require.Len(t, pod.Containers, 1)
		c := pod.Containers[0]
		require.Empty(t, c.Command, "the image has an ENTRYPOINT")
		require.Equal(t, "dedup:"+between(t, docker, "ARG VERSION=", "\n"), c.Image[strings.LastIndex(c.Image, "/")+1:])
		require.NotEmpty(t, c.Resources["requests"])
		require.NotEmpty(t, c.Resources["limits"])
		require.Equal(t, false, c.Security["allowPrivilegeEscalation"])
		require.Len(t, c.Env, 1)
		require.Empty(t, c.Env[0].Value, "the URL has a password: it comes from a Secret")
		require.Equal(t, "url", c.Env[0].ValueFrom.SecretKeyRef["key"])

		cmd, out, errOut := program(t, c.Args...)
		cmd.Env = append(cmd.Env, c.Env[0].Name+"="+db.URL)
		require.NoError(t, cmd.Run(), "%s: %s%s", want.file, out, errOut)
		require.Contains(t, out.String()+errOut.String(), want.says)
	}
}

// dockerfile returns the text of deploy/Dockerfile.
func dockerfile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(checkout + "/deploy/Dockerfile")
	require.NoError(t, err)
	return string(text)
}

// between returns the text between two others.
func between(t *testing.T, text, before, after string) string {
	t.Helper()
	_, text, found := strings.Cut(text, before)
	require.True(t, found, before)
	text, _, found = strings.Cut(text, after)
	require.True(t, found, after)
	return text
}
