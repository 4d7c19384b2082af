import{r as e,t}from"./chunk-SHT3W25Y-Bou4-xGy.js";import"./chunk-POPQ4Y6H-Db_K5btA.js";import"./chunk-LNGE3PJU-DRjopGY8.js";import"./chunk-TLUHSLCS-DieidnI5.js";import"./chunk-F27PBJKO-3rgoQEgg.js";import"./chunk-L3NEJ4N5-CaowVsi3.js";import"./chunk-OSK3NFVY-Cdm1E6_J.js";import"./chunk-GVQU2GXP-y3kBtGw3.js";import"./chunk-4HAMMTFA-Dq-Ecgu9.js";import"./chunk-P2QGCYS3-Vru1CtY-.js";import"./chunk-GMAD6QVW-CjP1ezzw.js";import"./chunk-PWAF6VOD-yFZ1VCqY.js";import"./chunk-75Z2AOVW-Be-yNZ69.js";import"./chunk-DU6HZSFF-DvCEPV6f.js";import"./d3-selection-CQOeqU2O.js";import{n}from"./chunk-Y2CYZVJY-DsF7k-Jl.js";var r=t({defaultLayout:`swimlane`,styles:n(t=>`${e(t)}
  .swimlane.cluster rect {
    stroke: ${t.clusterBorder} !important;
  }
  [data-look="neo"].cluster rect {
    filter: none;
  }
`,`getStyles`)});export{r as diagram};