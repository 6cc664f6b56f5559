// Package outside is the campaign of tools that act outside of the database. Worker
// processes call every operation of a provider that loses, delays and denies what it is
// asked. They are killed and halted at the steps of package external, and the server is
// restarted under them. Then all is calm, every operation is called once more, and the
// provider's books are compared with those of the library and of the application.
package outside
